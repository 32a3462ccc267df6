"""What people read and other tools take: tables, pictures, pages and exports."""
